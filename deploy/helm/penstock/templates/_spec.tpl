{{/* The image of the driver and of executors. */}}
{{- define "penstock.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* What executors are started with. Users' own settings come on top of it. */}}
{{- define "penstock.conf" -}}
spark.kubernetes.namespace: "${env:NAMESPACE}"
spark.kubernetes.driver.pod.name: "${env:POD}"
spark.kubernetes.container.image: {{ include "penstock.image" . | quote }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy | quote }}
{{- with .Values.image.pullSecrets }}
spark.kubernetes.container.image.pullSecrets: {{ join "," . | quote }}
{{- end }}
spark.driver.host: {{ .Release.Name | quote }}
spark.driver.bindAddress: 0.0.0.0
spark.driver.port: {{ .Values.ports.driver }}
spark.driver.blockManager.port: {{ .Values.ports.blocks }}
spark.executor.instances: {{ .Values.executors.instances }}
spark.executor.cores: {{ .Values.executors.cores }}
spark.executor.memory: {{ .Values.executors.memory | quote }}
spark.executor.memoryOverhead: {{ .Values.executors.memoryOverhead | quote }}
{{- range $name, $from := .Values.secrets }}
{{- if $from.executors }}
spark.kubernetes.executor.secretKeyRef.{{ $name }}: {{ printf "%s:%s" $from.secret $from.key | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The spec with what the cluster asks for. */}}
{{- define "penstock.spec" -}}
{{- $spark := dict "master" "local[*]" -}}
{{- if .Values.executors.instances -}}
{{- $conf := include "penstock.conf" . | fromYaml -}}
{{- $spark = dict "master" "k8s://https://kubernetes.default.svc" "conf" $conf -}}
{{- end -}}
{{- toYaml (mergeOverwrite (dict "spark" $spark) (deepCopy .Values.spec)) -}}
{{- end -}}

{{/* What selects the driver's pod. */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end -}}

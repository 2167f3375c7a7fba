"""MirrorMaker 2's source connector becomes publications of topics."""

from __future__ import annotations

import re
from typing import Any

from penstock.app.init.migrate.account import Migrated, Options, Rules, asked, names_in, unknown

_SOURCE, _TARGET = "source.cluster.bootstrap.servers", "target.cluster.bootstrap.servers"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def mirror(found: Migrated, options: Options) -> list[dict[str, Any]]:
    """Translate it. Raises InvalidError (P165) without clusters, and for patterns of topics."""
    source, target = options.get(_SOURCE, ""), options.get(_TARGET, "")
    if not source or not target:
        raise unknown(f"it names no clusters: {_SOURCE}, {_TARGET}")
    found.put(_TARGET, "kafka.brokers", target)
    is_other = source != target
    found.mapped.append((_SOURCE, "publish[].from.kafka.brokers" if is_other else "kafka.brokers"))
    topics = names_in(options.get("topics", ""))
    if not topics or not all(map(_NAME.fullmatch, topics)):
        raise unknown("it mirrors topics by a pattern: name them in  topics")
    keeps_names = "IdentityReplicationPolicy" in options.get("replication.policy.class", "")
    if keeps_names and not is_other:
        raise unknown("within one cluster a copy has another name than its topic")
    between = options.get("replication.policy.separator", ".")
    before = "" if keeps_names else f"{options.get('source.cluster.alias', 'source')}{between}"
    found.mapped += [("topics", "publish[].from.topic"), ("source.cluster.alias", "publish[].into")]
    other = {"kafka": {"brokers": source}} if is_other else {}
    return [{"from": {"topic": each, **other}, "into": f"{before}{each}"} for each in topics]


MIRROR: Rules = {
    "target.cluster.alias replication.policy.*": "the name of a copy is in  publish[].into",
    "source.cluster.* target.cluster.*": asked(
        "how brokers are spoken to: kafka.security, of the spec and under  from"
    ),
    "refresh.topics.* topics.exclude topics.blacklist exclude.internal.topics": (
        "topics are named in the spec"
    ),
    "offset-syncs.topic.* offset.lag.max emit.*": "no offsets of groups are translated",
    "sync.topic.*=false": "off, as here",
    "replication.factor": asked("new topics have the brokers' default replicas"),
    "sync.topic.*": asked("settings and permissions of topics are not kept alike"),
    "heartbeats.* emit.heartbeats.* checkpoints.* consumer.poll.timeout.ms"
    " add.source.alias.to.metrics admin.timeout.ms": "there is no such part",
    "key.converter value.converter header.converter": "records are published as they are",
}

"""Commands that read and change nothing: plan, peek, validate, status, audit."""

"""Commands that look and change nothing: plan, peek, validate, status, audit."""

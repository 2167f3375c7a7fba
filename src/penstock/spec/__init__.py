"""penstock.yaml becomes a frozen `Pipeline`, or all of its problems with file, line and column.

The Python twin is the same model: `Pipeline(name=…, tables=[Table(…)])`.

    problems, secrets    what is wrong and where; references, and the hiding of secrets
    text                 YAML with places, lines in which secrets are masked
    language             quantities, names, patterns and SQL expressions inside of a spec
    settings             the blocks of a spec as strict models
    checks               what must agree across them
    model                the whole: `Pipeline`
    load, paths          from a file to a pipeline
    json_schema          what editors check specs by
    routing, rules       which tables topics lead to; the rules that every ledger is stamped with
"""

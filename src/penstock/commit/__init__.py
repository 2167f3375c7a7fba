"""The two phases and recovery. The only caller of `Table.commit` and `TableFormat.create`."""

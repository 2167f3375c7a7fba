"""What tables demand of their rows: checked, computed and filled in before rows are written."""

"""What must agree across the settings of a spec."""

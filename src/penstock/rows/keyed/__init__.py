"""Keys of rows, and the net of what changes them."""

"""Changes by hand: quarantined records retried, ranges replayed, positions put back."""

"""Who may land: the claim and its heartbeat, fencing of other owners, exclusive access for changes
by hand.
"""

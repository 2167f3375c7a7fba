"""`penstock doctor`: is this machine, and all that the spec names, fit for a run?"""

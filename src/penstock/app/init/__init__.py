"""`penstock init`: a spec drafted from a cluster's topics or from another system's
configuration.
"""

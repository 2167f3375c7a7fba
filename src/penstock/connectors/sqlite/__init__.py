"""connectors.sqlite"""

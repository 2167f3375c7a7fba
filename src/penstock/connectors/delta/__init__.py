"""connectors.delta"""

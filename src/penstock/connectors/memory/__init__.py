"""connectors.memory"""

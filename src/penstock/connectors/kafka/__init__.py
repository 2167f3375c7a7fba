"""connectors.kafka"""

"""engines.spark"""

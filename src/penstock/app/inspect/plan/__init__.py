"""`penstock plan`: where each table would start, what its sample would become, how the run would
end.
"""

"""Bearer tokens for SASL OAUTHBEARER: where they come from, and how long one is used."""

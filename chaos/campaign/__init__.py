"""Campaigns: many experiments, each run once, its results kept, gone on with when there is time.

See docs/howto/campaign.md.
"""

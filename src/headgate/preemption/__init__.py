"""Who must leave?"""

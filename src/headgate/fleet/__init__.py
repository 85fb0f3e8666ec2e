"""Which cluster?"""

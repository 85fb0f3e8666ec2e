"""Does it fit the share?"""

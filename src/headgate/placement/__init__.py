"""Where would it run?"""

"""May it enter, may it go on?"""

"""What becomes of it?"""

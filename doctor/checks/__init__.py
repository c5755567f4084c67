"""Judgement: facts and knowledge in, findings out. A check looks at nothing itself."""

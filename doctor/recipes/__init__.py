"""Recipes: how other systems run the doctor, as data. `recipe` reads and fills them; the rest of the folder is theirs."""

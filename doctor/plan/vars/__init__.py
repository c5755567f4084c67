"""One module for each role that has variables: `values(facts, target, matrix)`."""

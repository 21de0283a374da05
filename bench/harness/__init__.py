"""What the scripts of bench share: the runtimes that are measured, models, timing, results, and the pages that show them."""

"""``edgebert serve``: a `Runtime` behind HTTP, in the shape of OpenAI's API.

A request goes through ``service`` (queue, timeout, client gone) to a thread of its own, where
``endpoints`` makes a call of the Runtime of it. Rows of all calls meet in ``batcher``, whose one
thread runs the engine.
"""

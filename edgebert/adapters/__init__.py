"""A bundle's vectors in other frameworks, one module each, which needs that framework.

::

    from edgebert.adapters.langchain import EdgeBertEmbeddings
    from edgebert.adapters.llamaindex import EdgeBertEmbedding
    from edgebert.adapters.chroma import EdgeBertEmbeddingFunction
    from edgebert.adapters.lancedb import EdgeBertFunction

Each gives what `edgebert.Runtime.encode` gives: documents with the bundle's prompt for documents,
queries with that for queries.
"""

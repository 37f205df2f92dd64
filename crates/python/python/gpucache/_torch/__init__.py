"""Parts of ``gpucache.torch``: what replaces functions of PyTorch that know only its own allocators."""

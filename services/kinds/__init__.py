"""The resource kinds of the API, one folder each; ``registry`` lists them. Pure: values in, values out.

Layers: common, kinds, then the services.
"""

"""What steps do for which operators have no command: namespaces of the engines, configuration of Argo CD."""

# SPDX-License-Identifier: Apache-2.0
"""Makes `import sparse_operation_kit` give sok_compat.sparse_operation_kit, and likewise
distributed_embeddings, unless there is a real one that was built. Run at every start of the
interpreter by sok_compat.pth, so it imports nothing that is not loaded anyway.
"""

import sys

PACKAGE = "sok_compat"
ALIASES = ("sparse_operation_kit", "distributed_embeddings")  # of folders of the package
# What SparseOperationKit cannot be imported without, where it is not below the package.
LIBRARIES = {"sparse_operation_kit": "libsparse_operation_kit.so"}


def face_of(alias):
    """The package that an alias, or a module below it, stands for."""
    return f"{PACKAGE}.{alias}"


def is_built(directory, alias="sparse_operation_kit"):
    """Whether the package in this directory has native libraries: any below it, or its own where it
    looks for that: in lib/ beside it, of any package of its name on sys.path, in /usr/local/lib.
    """
    import os

    if any(name.endswith(".so") for _, _, names in os.walk(directory) for name in names):
        return True
    if alias not in LIBRARIES:
        return False
    beside = os.path.join(os.path.dirname(directory), "lib")
    folders = [beside, *(os.path.join(entry, alias, "lib") for entry in sys.path)]
    return any(
        os.path.exists(os.path.join(f, LIBRARIES[alias])) for f in (*folders, "/usr/local/lib")
    )


def real_packages(alias="sparse_operation_kit"):
    """Specs of all packages of the alias's name that other finders find, in their order."""
    from importlib.machinery import PathFinder

    for finder in tuple(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None or isinstance(finder, _Finder):
            continue
        for path in [[entry] for entry in sys.path] if finder is PathFinder else [None]:
            spec = find_spec(alias, path)
            if spec is not None and spec.origin is not None:  # a mere directory does not count
                yield spec


def directory_of(spec):
    """Of a package, by its spec."""
    import os

    return os.path.dirname(os.path.abspath(spec.origin))


class _AliasLoader:
    """Puts the module of the real name under the alias; the module itself stays as it is."""

    def __init__(self, passed_over=()):
        self._passed_over = passed_over

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        import importlib

        alias = module.__spec__.name
        real = importlib.import_module(face_of(alias))
        if alias in ALIASES:
            real.register_ops()
        sys.modules[alias] = real
        if self._passed_over:
            import logging

            logging.getLogger(PACKAGE).warning(
                "import %s gives %s; passed over, because not built (no native libraries): %s",
                alias,
                face_of(alias),
                ", ".join(self._passed_over),
            )


class _Finder:
    """Resolves the package names; every other name is left to the other finders."""

    def find_spec(self, name, path=None, target=None):
        root, _, submodule = name.partition(".")
        if root in ALIASES:
            if not submodule:
                return self._find_alias(root)
            return self._alias_spec(name) if self._is_ours(root) else None
        if name == PACKAGE:
            return self._find_installed()
        return None

    def _find_alias(self, alias):
        """The first real package that was built; without one, the alias."""
        passed_over = []
        for spec in real_packages(alias):
            directory = directory_of(spec)
            if is_built(directory, alias):
                return spec
            passed_over.append(directory)
        return self._alias_spec(alias, passed_over)

    def _is_ours(self, alias):
        """Whether the alias was resolved here, and not by a real package of that name."""
        return alias in sys.modules and sys.modules[alias] is sys.modules.get(face_of(alias))

    def _alias_spec(self, name, passed_over=()):
        import importlib.util

        real = self._find_face(name) if name in ALIASES else importlib.util.find_spec(face_of(name))
        if real is None:
            return None
        is_package = real.submodule_search_locations is not None
        return importlib.util.spec_from_loader(
            name, _AliasLoader(passed_over), origin=real.origin, is_package=is_package
        )

    def _find_face(self, alias):
        """Without importing the package that it is in; None: the package is gone."""
        import importlib.util

        package = importlib.util.find_spec(PACKAGE)
        if package is None or package.origin is None:  # nothing, or an empty directory
            return None
        return self._find_elsewhere(face_of(alias), package.submodule_search_locations)

    def _find_elsewhere(self, name, path=None):
        """What the other finders find; a mere directory of that name does not count."""
        for finder in tuple(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path) if find_spec and finder is not self else None
            if spec is not None and spec.origin is not None:
                return spec
        return None

    def _find_installed(self):
        """The installed package where otherwise an unbuilt source tree on sys.path would win.

        Without this, `import sok_compat` in a clone of the repository finds the sources, which
        have no op library. An editable install has its own finder for the same purpose.
        """
        import os
        from importlib.machinery import PathFinder

        found = self._find_elsewhere(PACKAGE)
        directory = os.path.dirname(found.origin) if found else ""
        if os.path.exists(os.path.join(directory, "runtime", "_build_info.py")):
            return None
        installed = PathFinder.find_spec(PACKAGE, [os.path.dirname(os.path.abspath(__file__))])
        return installed if installed is not None and installed.origin is not None else None


if not any(
    type(finder).__name__ == _Finder.__name__ and type(finder).__module__ == __name__
    for finder in sys.meta_path
):
    sys.meta_path.insert(0, _Finder())

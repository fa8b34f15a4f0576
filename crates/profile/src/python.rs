//! Whose a file of a Python program is: the interpreter's, of Python's library, installed, or the program's own.

/// Whether the module at a path is the interpreter.
pub fn is_interpreter(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let version = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python3");
    version.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a module or source was installed beside Python's library.
pub fn is_installed(path: &str) -> bool {
    ["/site-packages/", "/dist-packages/"].iter().any(|folder| path.contains(folder))
}

/// Whether a module works for lines of Python: the interpreter, what comes with it, or what was installed.
pub fn is_native(path: &str) -> bool {
    is_interpreter(path) || is_installed(path) || path.contains("/lib-dynload/")
}

/// Whether a source belongs to Python's library, was installed, or is no file: made while the program runs.
pub fn is_library_source(file: &str) -> bool {
    let of_library = || file.split("/lib/python3").nth(1).is_some_and(|rest| rest.contains('/'));
    is_installed(file) || file.starts_with('<') || of_library()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_interpreter() {
        for path in ["/usr/bin/python3", "/usr/bin/python3.11", "/v/lib/libpython3.11.so.1.0"] {
            assert!(is_interpreter(path) && is_native(path), "{path}");
        }
        for path in ["python3-config", "libpython3stub.so", "/home/me/python3/app"] {
            assert!(!is_interpreter(path), "{path}");
        }
    }

    #[test]
    fn knows_modules_that_work_for_lines() {
        for path in ["/v/lib/python3.11/site-packages/numpy/core/x.so", "/usr/lib/python3.11/lib-dynload/_json.so"] {
            assert!(is_native(path), "{path}");
        }
        assert!(!is_native("/home/me/build/mine.cpython-311-x86_64-linux-gnu.so"));
    }

    #[test]
    fn knows_what_is_the_programs_own() {
        for file in ["/home/me/train.py", "model/net.py", "/srv/lib/python3tools.py"] {
            assert!(!is_library_source(file), "{file}");
        }
        for file in [
            "/usr/lib/python3.11/threading.py",
            "/v/lib/python3.12/site-packages/numpy/_core/_methods.py",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "<frozen importlib._bootstrap>",
            "<string>",
        ] {
            assert!(is_library_source(file), "{file}");
        }
    }
}

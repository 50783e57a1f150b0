//! Links that the wheels lack: names that the linker looks for, and folders where build scripts look.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::installed::LIBRARIES;
use super::wheels::Laid;

/// A link to be laid, and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    at: PathBuf,
    to: PathBuf,
}

/// Lays all links; those that are there already stay or are corrected.
pub(super) fn lay(laid: &Laid) -> anyhow::Result<()> {
    let folder = laid.home.join("lib");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    for Link { at, to } in plan(laid, &names)? {
        match fs::read_link(&at) {
            Ok(now) if now == to => continue,
            Ok(_) => fs::remove_file(&at).with_context(|| format!("cannot remove {}", at.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // Something that is no link: it came with a wheel, and is what is wanted.
            Err(_) => continue,
        }
        symlink(&to, &at).with_context(|| format!("cannot link {}", at.display()))?;
    }
    Ok(())
}

/// What is to be linked, where the folder of libraries holds these names.
fn plan(laid: &Laid, names: &[String]) -> anyhow::Result<Vec<Link>> {
    let (libraries, include) = (laid.home.join("lib"), laid.home.join("include"));
    let mut links = Vec::new();
    for library in LIBRARIES {
        let stem = format!("lib{library}.so");
        let Some(versioned) = names.iter().filter(|name| is_version_of(name, &stem)).max() else {
            bail!("the wheels have left no {stem}.N in {}", libraries.display());
        };
        links.push(Link { at: libraries.join(stem), to: versioned.into() });
    }
    // Relative, so that the folder may be moved: both wheels lie side by side.
    let nccl = Path::new("..").join("..").join(laid.nccl.file_name().unwrap_or_default());
    links.push(Link { at: libraries.join("libnccl.so"), to: nccl.join("lib").join("libnccl.so.2") });
    links.push(Link { at: include.join("nccl.h"), to: nccl.join("include").join("nccl.h") });
    // Where build scripts look.
    links.push(Link { at: laid.home.join("lib64"), to: "lib".into() });
    Ok(links)
}

/// `libcublas.so.13`, but not `libcublas.so.13.bak`.
fn is_version_of(name: &str, stem: &str) -> bool {
    let number = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    const NAMES: [&str; 6] = [
        "libcublas.so.13",
        "libcublasLt.so.13",
        "libcudart.so.13",
        "libcurand.so.10",
        "libnvrtc.so.13",
        "libnvrtc-builtins.so.13.0",
    ];

    fn resolved(path: &Path) -> PathBuf {
        path.canonicalize().expect("leads somewhere")
    }

    #[test]
    fn each_library_is_linked_without_its_version() {
        let laid = Laid { home: "/c".into(), nccl: "/n".into() };
        let names = NAMES.map(str::to_owned);
        let links = plan(&laid, &names).unwrap();
        let to = |at: &str| links.iter().find(|link| link.at == Path::new(at)).map(|link| link.to.clone());
        assert_eq!(to("/c/lib/libcurand.so"), Some("libcurand.so.10".into()));
        assert_eq!(to("/c/lib/libnvrtc.so"), Some("libnvrtc.so.13".into()));
        assert_eq!(to("/c/lib/libnccl.so"), Some("../../n/lib/libnccl.so.2".into()));
        assert_eq!(to("/c/include/nccl.h"), Some("../../n/include/nccl.h".into()));
        assert_eq!(to("/c/lib64"), Some("lib".into()));
        assert_eq!(links.len(), 8);
        let error = plan(&laid, &names[1..]).unwrap_err().to_string();
        assert_eq!(error, "the wheels have left no libcublas.so.N in /c/lib");
    }

    #[test]
    fn links_are_laid_twice_without_harm_and_corrected() {
        let scratch = Scratch::new();
        let laid = Laid { home: scratch.path().join("cu13"), nccl: scratch.path().join("nccl") };
        for folder in ["cu13/lib", "cu13/include", "nccl/lib", "nccl/include"] {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        for name in NAMES {
            fs::write(laid.home.join("lib").join(name), name).unwrap();
        }
        fs::write(laid.nccl.join("lib/libnccl.so.2"), "").unwrap();
        symlink("elsewhere", laid.home.join("lib/libcudart.so")).unwrap();
        lay(&laid).unwrap();
        lay(&laid).unwrap();
        assert_eq!(resolved(&laid.home.join("lib64/libcudart.so")), resolved(&laid.home.join("lib/libcudart.so.13")));
        assert_eq!(resolved(&laid.home.join("lib/libnccl.so")), resolved(&laid.nccl.join("lib/libnccl.so.2")));
    }
}

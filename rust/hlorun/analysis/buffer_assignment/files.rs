//! The files of one dump, which XLA writes side by side.
//!
//! Comes in: the path of one of them. Goes out: the paths of all that are there. Which facts stand
//! in which file changed over the years; [`super::parse_files`] takes them in any division.

use std::path::{Path, PathBuf};

/// What the names of a dump's files end in, in the order in which they are read.
pub const FILE_ENDINGS: [&str; 4] = [
    "-buffer-assignment.txt",
    "-buffer-assignment-values.txt",
    "-live-range.txt",
    "-memory-usage-report.txt",
];

/// What the name of the module's file ends in, the best first.
const MODULE_ENDINGS: [&str; 3] = [".txt", ".hlo", ".hlo.pb"];

const PACKED: [&str; 3] = ["", ".gz", ".zst"];

/// What the names of all files of the dump begin with; `None` where the name has none of the
/// endings.
fn stem(path: &Path) -> Option<(PathBuf, &'static str)> {
    let name = path.file_name()?.to_str()?;
    let plain = PACKED[1..]
        .iter()
        .find_map(|packed| name.strip_suffix(packed))
        .unwrap_or(name);
    let ending = FILE_ENDINGS
        .into_iter()
        .find(|ending| plain.ends_with(ending))?;
    let stem = &plain[..plain.len() - ending.len()];
    Some((path.with_file_name(stem), ending))
}

fn beside(stem: &Path, ending: &str) -> Option<PathBuf> {
    PACKED.iter().find_map(|packed| {
        let mut name = stem.as_os_str().to_owned();
        name.push(ending);
        name.push(packed);
        let path = PathBuf::from(name);
        path.is_file().then_some(path)
    })
}

/// The files of the dump that `path` belongs to, `path` among them.
pub fn dump_files(path: &Path) -> Vec<PathBuf> {
    let Some((stem, own)) = stem(path) else {
        return vec![path.to_owned()];
    };
    let file = |ending: &'static str| match ending == own {
        true => Some(path.to_owned()),
        false => beside(&stem, ending),
    };
    FILE_ENDINGS.into_iter().filter_map(file).collect()
}

/// The file of the module that the dump at `path` is of, where it stands beside it.
pub fn module_file(path: &Path) -> Option<PathBuf> {
    let (stem, _) = stem(path)?;
    MODULE_ENDINGS
        .iter()
        .find_map(|ending| beside(&stem, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_dump_are_found_from_each_of_them() {
        let folder = std::env::temp_dir().join(format!("hlorun-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let names = [
            "m_1.f-buffer-assignment.txt",
            "m_1.f-live-range.txt.gz",
            "m_1.f.txt",
            "m_1.g-live-range.txt",
            "other.txt",
        ];
        for name in names {
            std::fs::write(folder.join(name), "").expect("a file");
        }
        let paths = |all: &[&str]| all.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        for name in &names[..2] {
            assert_eq!(dump_files(&folder.join(name)), paths(&names[..2]));
            assert_eq!(
                module_file(&folder.join(name)),
                Some(folder.join("m_1.f.txt"))
            );
        }
        assert_eq!(dump_files(&folder.join(names[3])), paths(&names[3..4]));
        assert_eq!(module_file(&folder.join(names[3])), None);
        assert_eq!(dump_files(&folder.join(names[4])), paths(&names[4..]));
        std::fs::remove_dir_all(&folder).expect("removing the folder");
    }
}

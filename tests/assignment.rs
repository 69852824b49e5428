//! Buffer assignments: every dump is printed back byte for byte and fits its module.
use hlorun::analysis::buffer_assignment as ba;
#[test]
fn scratch() {
    let mut n = 0;
    let list = std::fs::read_to_string("/tmp/assign/list").unwrap();
    for path in list.lines() {
        let bytes = std::fs::read(path).unwrap();
        match ba::parse(bytes.clone().into(), Some(path.into())) {
            Err(e) => println!("{e}"),
            Ok(d) => {
                n += 1;
                let p = ba::print(&d);
                if p.as_bytes() != &bytes[..] {
                    println!("DIFF {path}");
                    std::fs::write("/tmp/assign/diff.txt", p).unwrap();
                }
            }
        }
    }
    println!("{n} read");
}

//! `replica_groups={{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)`, `mesh[…]…`.

use super::error::Parsed;
use super::parser::Parser;
use crate::module::attributes::ReplicaGroups;
use crate::module::scan::Scanner;

impl Parser<'_> {
    pub(super) fn replica_groups(&mut self) -> Parsed<ReplicaGroups> {
        match self.cursor.peek() {
            b'[' => self.iota_groups(),
            b'{' => {
                let mut groups = Vec::new();
                self.braced("'{' of the groups", |p| {
                    let mut group = Vec::new();
                    p.braced("'{' of a group", |p| {
                        group.push(p.cursor.integer("a device")?);
                        Ok(())
                    })?;
                    groups.push(group);
                    Ok(())
                })?;
                Ok(ReplicaGroups::List(groups))
            }
            _ => self.mesh_groups(),
        }
    }

    /// `mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'x'}`; what follows the mesh may be absent.
    fn mesh_groups(&mut self) -> Parsed<ReplicaGroups> {
        let mut text = self.raw_value()?;
        let mut ahead = self.cursor;
        if ahead.eat(b',') && ahead.eat_word(b"device_ids") && ahead.eat(b'=') {
            self.cursor = ahead;
            self.cursor.skip_space();
            text.len = (self.raw_value()?.end() - text.start as usize) as u32;
        }
        self.cursor.skip_space();
        if self.cursor.peek() == b'{' {
            text.len = (self.cursor.balanced()?.end() - text.start as usize) as u32;
        }
        let mut scan = Scanner::new(self.cursor.bytes(text));
        let read = scan.named_axes().map(<[u8]>::len);
        if read != Ok(text.len as usize) {
            let (offset, expected) = match read {
                Ok(length) => (length, "a mesh, 'mesh[…]', and the axes in braces"),
                Err(error) => (error.offset, error.expected),
            };
            self.cursor.position = text.start as usize + offset;
            return Err(self.cursor.expected(expected));
        }
        Ok(ReplicaGroups::Mesh(text))
    }

    fn iota_groups(&mut self) -> Parsed<ReplicaGroups> {
        let tile = self.bracketed()?;
        if !self.cursor.eat_text(b"<=") {
            return Err(self.cursor.expected("'<=' after the sizes of the groups"));
        }
        let reshape = self.bracketed()?;
        let mut transpose = Vec::new();
        if self.cursor.eat_word(b"T") {
            self.cursor.expect(b'(', "'(' of the transpose")?;
            loop {
                transpose.push(self.cursor.integer("a dimension number")?);
                if !self.cursor.eat(b',') {
                    break;
                }
            }
            self.cursor.expect(b')', "',' or ')' in the transpose")?;
        }
        Ok(ReplicaGroups::Iota {
            tile,
            reshape,
            transpose,
        })
    }

    /// `[2,4]`.
    fn bracketed(&mut self) -> Parsed<Vec<i64>> {
        self.cursor.expect(b'[', "'['")?;
        let mut list = Vec::new();
        loop {
            list.push(self.cursor.integer("a number")?);
            if !self.cursor.eat(b',') {
                break;
            }
        }
        self.cursor.expect(b']', "',' or ']'")?;
        Ok(list)
    }
}

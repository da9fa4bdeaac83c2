use std::sync::Mutex;

use super::*;

/// Takes so many bytes, then says that there is no space.
struct Full<'a> {
    taken: &'a Mutex<Vec<u8>>,
    room: &'a Mutex<usize>,
}

impl Write for Full<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.room.lock().unwrap();
        let length = bytes.len().min(*room);
        if length == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        *room -= length;
        self.taken.lock().unwrap().extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_that_was_torn_stands_alone_and_what_was_lost_is_told() {
    let (taken, room) = (Mutex::new(Vec::new()), Mutex::new(9));
    let mut lines = Lines::new(Full { taken: &taken, room: &room }, LogFormat::Text);
    assert!(lines.write(b"whole\n", 0));
    assert!(!lines.write(b"torn apart\n", 0));
    assert!(!lines.write(b"lost\n", 1));
    *room.lock().unwrap() = 1000;
    assert!(lines.write(b"again\n", 2));
    assert!(lines.write(b"quiet\n", 2));
    let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
    let all: Vec<&str> = text.lines().collect();
    assert_eq!((&all[..3], all[4]), (&["whole", "tor", "again"][..], "quiet"));
    assert!(all[3].ends_with("lines of the log were lost lost=2 lost_in_all=2"), "{}", all[3]);
}

#[test]
fn a_notice_that_does_not_fit_is_told_later() {
    let (taken, room) = (Mutex::new(Vec::new()), Mutex::new(6));
    let mut lines = Lines::new(Full { taken: &taken, room: &room }, LogFormat::Json);
    assert!(lines.write(b"first\n", 5));
    *room.lock().unwrap() = 1000;
    assert!(lines.write(b"{}\n", 7));
    let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["message"], "lines of the log were lost lost=7 lost_in_all=7");
    assert_eq!(last["level"], "WARN");
}

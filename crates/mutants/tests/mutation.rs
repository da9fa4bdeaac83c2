//! Mistakes are found in the source whatever its white space is, and refused if they are not.

#[path = "../build/mutation.rs"]
mod mutation;

use mutation::{Edit, Hunk, Mistake, splice};

const SOURCE: &str = "fn slot(&self) -> usize {\n    self.generation\n        % 2\n}\n";

fn hunk(right: &str, wrong: &str) -> Hunk {
    Hunk { file: "slot.rs".to_owned(), right: right.to_owned(), wrong: wrong.to_owned() }
}

fn edit(number: usize, hunk: &Hunk) -> Edit<'_> {
    Edit { number, mistake: "SingleSlot", hunk }
}

#[test]
fn a_mistake_is_read_with_all_its_places() {
    let text = "One slot.\n\n@ slot.rs\n- self.generation % 2\n+ 0\n@ end.rs\n- a();\n- b();\n";
    let mistake = Mistake::parse("SingleSlot", text).unwrap();
    let end =
        Hunk { file: "end.rs".to_owned(), right: "a();\nb();\n".to_owned(), wrong: String::new() };
    assert_eq!(mistake.name, "SingleSlot");
    assert_eq!(mistake.hunks, [hunk("self.generation % 2\n", "0\n"), end]);
}

#[test]
fn what_is_no_mistake_is_refused() {
    let wrong = [
        "",
        "Says nothing.",
        "@ slot.rs\n- a\n+ b\n",
        "No place.\n- a\n+ b\n",
        "Nothing to replace.\n\n@ slot.rs\n+ b\n",
        "A line too many.\n\n@ slot.rs\n- a\nb\n",
        "The wrong order.\n\n@ slot.rs\n+ b\n- a\n",
    ];
    for text in wrong {
        assert!(Mistake::parse("Wrong", text).is_err(), "{text}");
    }
}

#[test]
fn a_mistake_stands_beside_what_is_right() {
    let hunk = hunk("self.generation % 2", "0");
    let spliced = splice(SOURCE, &[edit(7, &hunk)]).unwrap();
    let expected = "fn slot(&self) -> usize {\n    { if crate::switch::is_on(7) { /* SingleSlot */ 0 } \
                    else { self.generation\n        % 2 } }\n}\n";
    assert_eq!(spliced, expected);
}

#[test]
fn two_mistakes_may_be_in_one_place() {
    let (one, other) = (hunk("self.generation%2", "0"), hunk("self.generation % 2", "1"));
    let spliced = splice(SOURCE, &[edit(3, &other), edit(1, &one)]).unwrap();
    assert_eq!(spliced.matches("self.generation").count(), 1);
    assert!(spliced.find("is_on(1)").unwrap() < spliced.find("is_on(3)").unwrap());
}

#[test]
fn what_is_not_there_once_or_overlaps_is_refused() {
    let (gone, often) = (hunk("self.sequence", "0"), hunk("e", "0"));
    assert!(splice(SOURCE, &[edit(0, &gone)]).unwrap_err().contains("0 times"));
    assert!(splice(SOURCE, &[edit(0, &often)]).unwrap_err().contains("times instead of once"));
    let (part, whole) = (hunk("generation % 2", "0"), hunk("self.generation % 2", "0"));
    assert!(splice(SOURCE, &[edit(0, &part), edit(1, &whole)]).unwrap_err().contains("overlaps"));
}

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_route_has_its_own_row() {
    for (number, row) in ROUTES.iter().enumerate() {
        assert_eq!(row.route as usize, number, "{:?}", row.route);
        assert_eq!(row.route.row().path, row.path);
    }
}

#[test]
fn no_method_and_path_is_there_twice() {
    let mut known = BTreeSet::new();
    for row in ROUTES {
        assert!(known.insert((row.method.name(), row.path)), "{:?}", row.route);
    }
}

/// Who forgets to say whose a route is may not make it anybody's.
#[test]
fn viewers_change_nothing_but_what_is_their_own() {
    let own = [Route::Logout, Route::ChangePassword, Route::CreateToken, Route::DeleteToken];
    for row in ROUTES.iter().filter(|row| row.method != Method::Get) {
        assert!(row.role != Role::Viewer || own.contains(&row.route), "{:?}", row.route);
    }
}

// Written by 'cargo xtask web'.
static FILES: [File; 5] = [
    File {
        path: "/assets/gantry-6a1e9ae9dbcb2351.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"6a1e9ae9dbcb2351\"",
        identity: include_bytes!("assets/gantry.js"),
        gzip: OnceLock::new(),
    },
    File {
        path: "/assets/icon-d5864259e84ba517.svg",
        content_type: "image/svg+xml",
        etag: "W/\"d5864259e84ba517\"",
        identity: include_bytes!("assets/icon.svg"),
        gzip: OnceLock::new(),
    },
    File {
        path: "/assets/style-aee4c9ccfcbcf92d.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"aee4c9ccfcbcf92d\"",
        identity: include_bytes!("assets/style.css"),
        gzip: OnceLock::new(),
    },
    File {
        path: "/assets/theme-d4ce0790d2976056.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"d4ce0790d2976056\"",
        identity: include_bytes!("assets/theme.js"),
        gzip: OnceLock::new(),
    },
    File {
        path: "/index.html",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"22fd973875f74981\"",
        identity: include_bytes!("index.html"),
        gzip: OnceLock::new(),
    },
];

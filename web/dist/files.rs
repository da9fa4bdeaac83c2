// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-4b261b3a2e18e399.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"4b261b3a2e18e399\"",
        identity: include_bytes!("assets/gantry-4b261b3a2e18e399.js"),
        gzip: include_bytes!("assets/gantry-4b261b3a2e18e399.js.gz"),
        brotli: include_bytes!("assets/gantry-4b261b3a2e18e399.js.br"),
    },
    File {
        path: "/assets/icon-d5864259e84ba517.svg",
        content_type: "image/svg+xml",
        etag: "W/\"d5864259e84ba517\"",
        identity: include_bytes!("assets/icon-d5864259e84ba517.svg"),
        gzip: include_bytes!("assets/icon-d5864259e84ba517.svg.gz"),
        brotli: include_bytes!("assets/icon-d5864259e84ba517.svg.br"),
    },
    File {
        path: "/assets/style-aee4c9ccfcbcf92d.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"aee4c9ccfcbcf92d\"",
        identity: include_bytes!("assets/style-aee4c9ccfcbcf92d.css"),
        gzip: include_bytes!("assets/style-aee4c9ccfcbcf92d.css.gz"),
        brotli: include_bytes!("assets/style-aee4c9ccfcbcf92d.css.br"),
    },
    File {
        path: "/assets/theme-d4ce0790d2976056.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"d4ce0790d2976056\"",
        identity: include_bytes!("assets/theme-d4ce0790d2976056.js"),
        gzip: include_bytes!("assets/theme-d4ce0790d2976056.js.gz"),
        brotli: include_bytes!("assets/theme-d4ce0790d2976056.js.br"),
    },
    File {
        path: "/index.html",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"9c512265155970a5\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]

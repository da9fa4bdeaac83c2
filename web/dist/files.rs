// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-219ecdbc6a20985c.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"219ecdbc6a20985c\"",
        identity: include_bytes!("assets/gantry-219ecdbc6a20985c.js"),
        gzip: include_bytes!("assets/gantry-219ecdbc6a20985c.js.gz"),
        brotli: include_bytes!("assets/gantry-219ecdbc6a20985c.js.br"),
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
        etag: "W/\"bf8928416a1d3603\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]

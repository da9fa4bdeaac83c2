// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-8449caf5c5711595.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"8449caf5c5711595\"",
        identity: include_bytes!("assets/gantry-8449caf5c5711595.js"),
        gzip: include_bytes!("assets/gantry-8449caf5c5711595.js.gz"),
        brotli: include_bytes!("assets/gantry-8449caf5c5711595.js.br"),
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
        path: "/assets/style-8cef37bcea0cfbce.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"8cef37bcea0cfbce\"",
        identity: include_bytes!("assets/style-8cef37bcea0cfbce.css"),
        gzip: include_bytes!("assets/style-8cef37bcea0cfbce.css.gz"),
        brotli: include_bytes!("assets/style-8cef37bcea0cfbce.css.br"),
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
        etag: "W/\"1601c62b0a416c95\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]

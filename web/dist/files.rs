// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-459a7e02dd88f778.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"459a7e02dd88f778\"",
        identity: include_bytes!("assets/gantry-459a7e02dd88f778.js"),
        gzip: include_bytes!("assets/gantry-459a7e02dd88f778.js.gz"),
        brotli: include_bytes!("assets/gantry-459a7e02dd88f778.js.br"),
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
        path: "/assets/style-ebe3c7d06772447a.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"ebe3c7d06772447a\"",
        identity: include_bytes!("assets/style-ebe3c7d06772447a.css"),
        gzip: include_bytes!("assets/style-ebe3c7d06772447a.css.gz"),
        brotli: include_bytes!("assets/style-ebe3c7d06772447a.css.br"),
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
        etag: "W/\"6ba9a0e68c664270\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]

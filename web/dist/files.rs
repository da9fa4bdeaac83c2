// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-628e310a492aa3e3.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "\"628e310a492aa3e3\"",
        identity: include_bytes!("assets/gantry-628e310a492aa3e3.js"),
        gzip: include_bytes!("assets/gantry-628e310a492aa3e3.js.gz"),
        brotli: include_bytes!("assets/gantry-628e310a492aa3e3.js.br"),
    },
    File {
        path: "/assets/icon-d5864259e84ba517.svg",
        content_type: "image/svg+xml",
        etag: "\"d5864259e84ba517\"",
        identity: include_bytes!("assets/icon-d5864259e84ba517.svg"),
        gzip: include_bytes!("assets/icon-d5864259e84ba517.svg.gz"),
        brotli: include_bytes!("assets/icon-d5864259e84ba517.svg.br"),
    },
    File {
        path: "/assets/style-5f92d3efd25eb3bd.css",
        content_type: "text/css; charset=utf-8",
        etag: "\"5f92d3efd25eb3bd\"",
        identity: include_bytes!("assets/style-5f92d3efd25eb3bd.css"),
        gzip: include_bytes!("assets/style-5f92d3efd25eb3bd.css.gz"),
        brotli: include_bytes!("assets/style-5f92d3efd25eb3bd.css.br"),
    },
    File {
        path: "/assets/theme-d4ce0790d2976056.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "\"d4ce0790d2976056\"",
        identity: include_bytes!("assets/theme-d4ce0790d2976056.js"),
        gzip: include_bytes!("assets/theme-d4ce0790d2976056.js.gz"),
        brotli: include_bytes!("assets/theme-d4ce0790d2976056.js.br"),
    },
    File {
        path: "/index.html",
        content_type: "text/html; charset=utf-8",
        etag: "\"171e359069c201de\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]

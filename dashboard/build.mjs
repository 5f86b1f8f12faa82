// Builds the dashboard: `node build.mjs OUT SOURCES` bundles src/ into OUT; `node build.mjs --tests` bundles and runs test/.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { spawnSync } from "node:child_process";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const common = {
    absWorkingDir: here,
    bundle: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
};

async function application(out, sources) {
    rmSync(out, { recursive: true, force: true });
    mkdirSync(out, { recursive: true });
    await build({
        ...common,
        entryPoints: { main: "src/main.tsx" },
        splitting: true,
        minify: true,
        outdir: out,
        entryNames: "[name]-[hash]",
        chunkNames: "[name]-[hash]",
        define: { "process.env.NODE_ENV": '"production"' },
    });
    // The theme script runs before the first paint, so it is a classic script of its own.
    await build({ ...common, format: "iife", minify: true, entryPoints: { theme: "src/theme.ts" }, outdir: out });
    await build({ ...common, minify: true, entryPoints: { style: "src/styles/main.css" }, outdir: out });
    const manifest = {
        sources,
        entry: readdirSync(out).find((name) => name.startsWith("main-")),
        theme: hashed(out, "theme.js"),
        style: hashed(out, "style.css"),
    };
    for (const name of readdirSync(out)) {
        writeFileSync(join(out, `${name}.gz`), gzipSync(readFileSync(join(out, name)), { level: 9 }));
    }
    // Written last: a build that was interrupted has no manifest.
    writeFileSync(join(out, "manifest.json"), JSON.stringify(manifest, null, 2) + "\n");
}

function hashed(folder, name) {
    const digest = createHash("sha256")
        .update(readFileSync(join(folder, name)))
        .digest("hex")
        .slice(0, 8);
    const [stem, extension] = name.split(".");
    const renamed = `${stem}-${digest.toUpperCase()}.${extension}`;
    renameSync(join(folder, name), join(folder, renamed));
    return renamed;
}

async function tests() {
    const out = join(here, ".tests");
    rmSync(out, { recursive: true, force: true });
    const found = readdirSync(join(here, "test"), { recursive: true }).filter((name) => name.endsWith(".test.ts"));
    await build({
        ...common,
        platform: "node",
        entryPoints: found.map((name) => join("test", name)),
        outdir: out,
        outbase: "test",
        outExtension: { ".js": ".mjs" },
        external: ["node:*"],
    });
    const bundles = found.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
    process.exit(spawnSync(process.execPath, ["--test", ...bundles], { stdio: "inherit" }).status ?? 1);
}

if (process.argv[2] === "--tests") await tests();
else
    await application(
        process.argv[2] ?? join(here, "..", "src/assay/api/dashboard/built"),
        process.argv[3] ?? basename(here),
    );

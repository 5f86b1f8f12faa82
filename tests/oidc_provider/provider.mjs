// A real OpenID Connect provider. Reads its settings as one line of JSON from standard input, prints its port, and
// serves until its input ends. Paths below /test belong to the tests: /test/rotate replaces the signing key.
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";

const input = createInterface({ input: process.stdin });
const settings = JSON.parse((await input[Symbol.asyncIterator]().next()).value);
input.on("close", () => process.exit(0));

let keys = 0;
let current;
const server = createServer(async (request, response) => {
  if (request.url === "/test/rotate") {
    await rotate();
    response.end("rotated");
    return;
  }
  current(request, response);
});
server.listen(0, settings.host, async () => {
  await rotate();
  process.stdout.write(`${server.address().port}\n`);
});

async function rotate() {
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  keys += 1;
  const key = { ...(await exportJWK(privateKey)), kid: `key-${keys}`, alg: "RS256", use: "sig" };
  current = provider(key).callback();
}

function provider(key) {
  const made = new Provider(`http://${settings.host}:${server.address().port}`, {
    jwks: { keys: [key] },
    clients: settings.clients,
    claims: { openid: ["sub", ...settings.id_token_claims], profile: ["preferred_username"], email: ["email"] },
    conformIdTokenClaims: false,
    cookies: { keys: ["only for tests"] },
    ttl: settings.ttl,
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => "urn:assay",
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: "", audience: "assay", accessTokenFormat: "jwt" }),
      },
    },
    extraTokenClaims: () => ({ roles: settings.roles }),
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, email: `${id}@example.com`, roles: settings.roles }),
    }),
  });
  made.on("server_error", (_, error) => process.stderr.write(`${error.stack}\n`));
  return made;
}

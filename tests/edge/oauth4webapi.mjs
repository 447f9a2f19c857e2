// oauth4webapi walks through everything that Skein's authorization server offers. It asks for what only a person can do by
// a line on its output ({"ask": …}), reads the answer from its input, and says in the end what it has done.
import * as oauth from 'oauth4webapi';
import { createInterface } from 'node:readline/promises';

const { ISSUER, REDIRECT, SERVICE_ACCOUNT, SERVICE_KEY } = process.env;
const insecure = { [oauth.allowInsecureRequests]: true };
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const done = [];

async function ask(question) {
  console.log(JSON.stringify({ ask: question }));
  return (await lines.next()).value;
}

async function discovered(algorithm) {
  const answer = await oauth.discoveryRequest(new URL(ISSUER), { algorithm, ...insecure });
  done.push(`discovery (${algorithm})`);
  return oauth.processDiscoveryResponse(new URL(ISSUER), answer);
}

async function registered(server, method) {
  const answer = await oauth.dynamicClientRegistrationRequest(
    server,
    {
      client_name: `oauth4webapi ${method}`,
      redirect_uris: [REDIRECT],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      token_endpoint_auth_method: method,
    },
    insecure,
  );
  done.push(`registration (${method})`);
  return oauth.processDynamicClientRegistrationResponse(answer);
}

function proof(client) {
  if (client.token_endpoint_auth_method === 'client_secret_basic') return oauth.ClientSecretBasic(client.client_secret);
  if (client.token_endpoint_auth_method === 'client_secret_post') return oauth.ClientSecretPost(client.client_secret);
  return oauth.None();
}

async function withCode(server, client) {
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const nonce = oauth.generateRandomNonce();
  const url = new URL(server.authorization_endpoint);
  for (const [name, value] of Object.entries({
    client_id: client.client_id,
    redirect_uri: REDIRECT,
    response_type: 'code',
    scope: 'openid email memory.read memory.write',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    resource: server.issuer,
    state,
    nonce,
  })) url.searchParams.set(name, value);
  const back = new URL(await ask({ authorize: url.href }));
  const parameters = oauth.validateAuthResponse(server, client, back, state);
  const answer = await oauth.authorizationCodeGrantRequest(
    server, client, proof(client), parameters, REDIRECT, verifier, { additionalParameters: { resource: server.issuer }, ...insecure },
  );
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, answer, {
    expectedNonce: nonce,
    requireIdToken: true,
  });
  await oauth.validateApplicationLevelSignature(server, answer, insecure);
  done.push(`code with PKCE and ID token (${client.token_endpoint_auth_method})`);

  const subject = oauth.getValidatedIdTokenClaims(tokens).sub;
  const who = await oauth.userInfoRequest(server, client, tokens.access_token, insecure);
  await oauth.processUserInfoResponse(server, client, subject, who);
  done.push('userinfo');
  return tokens;
}

async function checked(server, token) {
  const request = new Request(`${ISSUER}/anything`, { headers: { authorization: `Bearer ${token}` } });
  const claims = await oauth.validateJwtAccessToken(server, request, server.issuer, insecure);
  done.push('RFC 9068 access token');
  return claims;
}

async function called(token) {
  const answer = await oauth.protectedResourceRequest(
    token, 'POST', new URL(`${ISSUER}/skein.memory.v1.MemoryService/ListMemories`),
    new Headers({ 'content-type': 'application/json' }), '{}', insecure,
  );
  return answer.status;
}

async function refused(token) {
  try {
    await called(token);
  } catch (error) {
    if (error.code !== oauth.WWW_AUTHENTICATE_CHALLENGE) throw error;
    const [{ scheme, parameters }] = error.cause;
    done.push(`challenge (${parameters.error})`);
    return { scheme, ...parameters };
  }
  throw new Error('the API took a token that is none');
}

const server = await discovered('oauth2');
await discovered('oidc');
const resource = await oauth.processResourceDiscoveryResponse(
  new URL(ISSUER), await oauth.resourceDiscoveryRequest(new URL(ISSUER), insecure));
if (!resource.authorization_servers.includes(server.issuer)) throw new Error('the resource names another server');
done.push('resource metadata');

const challenge = await refused('nonsense');
if (challenge.resource_metadata !== `${ISSUER}/.well-known/oauth-protected-resource`) throw new Error('no resource metadata');

for (const method of ['none', 'client_secret_basic', 'client_secret_post']) {
  const client = await registered(server, method);
  const tokens = await withCode(server, client);
  const claims = await checked(server, tokens.access_token);
  if (claims.client_id !== client.client_id) throw new Error('the token is of another client');
  if ((await called(tokens.access_token)) !== 200) throw new Error('the API refuses the token');

  const next = await oauth.processRefreshTokenResponse(
    server, client, await oauth.refreshTokenGrantRequest(server, client, proof(client), tokens.refresh_token, insecure));
  if (next.refresh_token === tokens.refresh_token) throw new Error('the refresh token stays the same');
  done.push('refresh');

  if (method !== 'none') {
    const seen = await oauth.processIntrospectionResponse(
      server, client, await oauth.introspectionRequest(server, client, proof(client), next.access_token, insecure));
    if (!seen.active || seen.client_id !== client.client_id) throw new Error('introspection does not know the token');
    done.push('introspection');
  }

  await oauth.processRevocationResponse(
    await oauth.revocationRequest(server, client, proof(client), next.refresh_token, insecure));
  done.push('revocation');
  try {
    await oauth.processRefreshTokenResponse(
      server, client, await oauth.refreshTokenGrantRequest(server, client, proof(client), next.refresh_token, insecure));
    throw new Error('a revoked refresh token works');
  } catch (error) {
    if (error.code !== oauth.RESPONSE_BODY_ERROR || error.error !== 'invalid_grant') throw error;
  }
}

const device = await registered(server, 'none');
const started = await oauth.processDeviceAuthorizationResponse(
  server, device, await oauth.deviceAuthorizationRequest(server, device, oauth.None(), { scope: 'memory.read' }, insecure));
await ask({ device: started.verification_uri_complete, code: started.user_code });
const given = await oauth.processDeviceCodeResponse(
  server, device, await oauth.deviceCodeGrantRequest(server, device, oauth.None(), started.device_code, insecure));
await checked(server, given.access_token);
done.push('device');

const account = { client_id: SERVICE_ACCOUNT };
const own = await oauth.processClientCredentialsResponse(
  server, account, await oauth.clientCredentialsGrantRequest(
    server, account, oauth.ClientSecretBasic(SERVICE_KEY), { scope: 'memory.read' }, insecure));
await checked(server, own.access_token);
done.push('client credentials');

console.log(JSON.stringify({ done }));
process.exit(0);
